from accounts.selectors.parties import party_contacts, party_of

__all__ = ["party_contacts", "party_of"]
