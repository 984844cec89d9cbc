"""A believable marketplace to look at: made by the services people use, never by setting a status."""
