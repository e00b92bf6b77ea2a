"""All probes, safest first."""
