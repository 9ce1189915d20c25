"""Full-screen lists that filter as you type."""
