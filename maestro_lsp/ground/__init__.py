"""What `maestro_lsp.repairs` and `maestro_lsp.stdio` are made of; nothing else imports it but for the
errors in `rpc`.
"""
