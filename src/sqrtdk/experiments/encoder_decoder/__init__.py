"""The experiment `encoder_decoder`."""
