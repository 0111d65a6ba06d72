"""The tournament: many agents train at once, a leaderboard ranks them, and new ones start from the leaders."""
