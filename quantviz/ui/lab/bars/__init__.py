"""The Lab's rows of controls: its title and Share, the scheme, the bar of a phone."""
