"""Variables for the programs that a daemon starts."""

# Daemons are non-interactive: git must not ask for a password.
NON_INTERACTIVE = {"SSH_ASKPASS_REQUIRE": "never"}
