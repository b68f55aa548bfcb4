"""Request traces as people have them, read into one record and fitted to what the engine can hold."""
