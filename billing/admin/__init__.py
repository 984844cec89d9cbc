from billing.admin import adjustments, bank, books, claims, safety, spending

__all__ = ["adjustments", "bank", "books", "claims", "safety", "spending"]
