"""What has been gone through, remembered for learning from it again and again."""
