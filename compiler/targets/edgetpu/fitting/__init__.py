"""What makes a program fit the memories: strips, spilling, staging, resident parameters."""
