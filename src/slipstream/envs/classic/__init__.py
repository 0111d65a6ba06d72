"""The classic control tasks, exactly as Gymnasium defines them."""
