from accounts.models.notification import Notification
from accounts.models.party import Party, PartyMember
from accounts.models.user import User

__all__ = ["Notification", "Party", "PartyMember", "User"]
