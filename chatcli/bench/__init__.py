"""Measurements that anyone can repeat, each against a peer in the same run; refuses the user's own folder."""
