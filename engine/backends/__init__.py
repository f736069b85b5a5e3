"""GPU backends: add-on files to the library, checked before they are used."""
