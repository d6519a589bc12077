"""Questions of bank customers: Banking77 (Casanueva et al., 2020, CC BY 4.0), 77 intents."""
