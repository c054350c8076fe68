"""Films of policies: videos and web pages. Nothing that trains imports this."""
