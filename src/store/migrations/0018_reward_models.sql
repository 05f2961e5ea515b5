-- Models beside the base that an auto-align's reward asks: judge, preference model, and the key in whose name an upstream is asked.
ALTER TABLE alignment ADD COLUMN reward_models_json TEXT;
