"""The version of the package, for those that the package itself imports."""

VERSION = "0.1.0"
