"""What the server does for a client: commands, requests to the person, documents."""
