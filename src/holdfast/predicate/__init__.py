"""Conditions as records, and what statistics prove about them."""
