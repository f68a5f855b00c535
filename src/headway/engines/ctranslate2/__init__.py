"""The engine that runs a converted copy of the model in CTranslate2."""
