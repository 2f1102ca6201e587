"""The front door: a picture and a slider, and three doors."""
