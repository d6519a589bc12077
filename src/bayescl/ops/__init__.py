"""Stateless functions on tensors."""
