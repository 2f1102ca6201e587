"""Files that a person drops anywhere: each goes to the page that answers it."""
