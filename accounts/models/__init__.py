from accounts.models.party import Party, PartyMember
from accounts.models.user import User

__all__ = ["Party", "PartyMember", "User"]
