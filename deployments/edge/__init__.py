"""What every door shares: who is calling, may they, how a body is read and how an error looks."""
