from accounts.selectors.changes import change_latest, former_addresses
from accounts.selectors.notifications import inbox_of, unread_count
from accounts.selectors.parties import party_contacts, party_of

__all__ = ["change_latest", "former_addresses", "inbox_of", "party_contacts", "party_of", "unread_count"]
