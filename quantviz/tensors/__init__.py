"""How a tensor is held and addressed: conversion to float32, lazy tensors, blocks, views."""
