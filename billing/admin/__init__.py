from billing.admin import adjustments, bank, books, claims, spending

__all__ = ["adjustments", "bank", "books", "claims", "spending"]
