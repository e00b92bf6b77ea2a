"""From models to programs and files, for every target: compiler and linker put together."""
