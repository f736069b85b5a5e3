"""How the window looks: tokens, the stylesheet made from them, icons and fonts."""
