"""Audits: a quantized checkpoint beside its original, tensor by tensor."""
