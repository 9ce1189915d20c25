"""The input box: editing, pastes, completion."""
