"""From a package to answers: runtimes and devices."""
