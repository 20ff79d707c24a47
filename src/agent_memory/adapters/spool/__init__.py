"""Where hooks leave what they were told while no daemon answers."""
