"""mini-swe-agent's own light model class, at the address that OPENAI_BASE_URL names."""

import os

from minisweagent.models.openrouter_model import OpenRouterModel


class BaseUrlModel(OpenRouterModel):
    """The same requests, asked elsewhere."""

    def __init__(self, **options):
        super().__init__(**options)
        self._api_url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
        self._api_key = os.environ["OPENAI_API_KEY"]
