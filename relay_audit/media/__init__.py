"""A media file's provenance: box walk, signature, encoder, marks. Strangers' bytes are read in a child process."""
