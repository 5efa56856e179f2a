"""The command line: one module for each verb or small family of verbs, loaded when it is used."""
