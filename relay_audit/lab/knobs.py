"""Everything that can be turned in the lab, one field per fault; the defaults are an honest new-api relay."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from relay_audit.lab.caching import CacheWay
from relay_audit.lab.choosing import Undecided
from relay_audit.lab.evasion import Strikes
from relay_audit.lab.money import Money
from relay_audit.lab.reciting import Recites
from relay_audit.lab.tokenizer import GenerationName

Channel = Literal["anthropic", "aws", "vertex", "azure"]
IdStyle = Literal["minted", "forged_bedrock", "random", "stale", "first_party", "constant", "future", "converted"]
"""`converted`: as a converter in front of OpenAI writes it. `first_party`:
minted as the vendor's own, whatever stands behind. `constant`: as CLIProxyAPI writes it."""
Signed = Literal["own", "opaque", "anthropic", "aws", "vertex"]
Hostile = Literal[
    "", "html_200", "empty_body", "huge_body", "gzip_bomb", "endless_stream", "slow_drip", "redirect", "invalid_json",
    "nan_usage", "negative_usage", "hang", "reset_after_headers", "wrong_key", "gated_403", "balance_empty",
    "unreachable",
]  # fmt: skip


@dataclass(frozen=True)
class Knobs:
    software: Literal["new-api", "plain", "litellm", "sub2api", "claude-relay-service", "one-api", "veloera"] = (
        "new-api"
    )
    channel: Channel | Literal["mixed"] = "anthropic"
    """What stands behind the relay; `mixed` is half Bedrock, half first-party."""
    ids: IdStyle = "minted"
    signature: Signed = "own"
    """The platform that thinking signatures name; `own` is the channel's."""
    signature_model: str = ""
    """The model that thinking signatures name; empty means the one that answers."""
    accounts: int = 1
    """Accounts at the vendor among which requests go round."""
    streams: Literal["as_sent", "rebuilt"] = "as_sent"
    """Whether the relay passes streams on or prints them anew. What comes from Bedrock is always printed anew."""
    inner_relay: bool = False
    """A second relay stands behind this one; refusals carry the request ids of both."""
    returned_name: str = ""
    """What answers name as their model; empty means the requested name."""
    claims: str = "anthropic"
    """The channel this vendor says it sells."""
    future: bool = False
    """Both sides speak the vendor's next dialect: ids, signatures, events, fields and wordings nobody has seen yet."""
    replays: bool = False
    """Every second answer is the one before it, id and text; its usage is its own."""
    strips_vendor_headers: bool = False
    """`request-id`, `anthropic-*` and `cf-ray` do not pass, as sub2api's allow-list has it."""
    strips_request_id: bool = False
    template_offset: int | None = None
    """Billed minus counted tokens of an untouched request; None draws 0 to 8 from the seed."""
    hidden: int = 0
    """Input tokens of a system prompt the relay adds."""
    hidden_when: Literal["always", "no_system", "sometimes", "library_agent", "streams"] = "always"
    """`library_agent`: only for callers whose User-Agent is that of an HTTP library."""
    recites: Recites = "hidden"
    """What the model says when it is asked for that prompt."""
    hidden_cached: int = 0
    """A hidden prompt that is written to the vendor's cache once and read from it afterwards."""
    usage_factor: Decimal = Decimal(1)
    """What the relay multiplies input tokens by, in the answer and in the bill."""
    generation: GenerationName | None = None
    """Serve with the tokenizer of another generation; everything else still looks like the requested model."""
    usage_extras: bool = False
    """Unknown usage fields, and nulls at the top level, on every answer."""
    geo: str = ""
    """Overrides `usage.inference_geo`."""
    group: str = "default"
    group_ratio: Decimal = Decimal(1)
    charge_factor: int = 1
    """What is charged, as a multiple of what the row's own ratios give."""
    money: Money = field(default_factory=Money)
    """Everything else between a call's usage, its row and the balance."""
    cache: CacheWay = "own"
    """What the upstream does with marks for its prompt cache."""
    log: Literal["on", "off", "late", "query_only", "used_up"] = "on"
    """`used_up`: the buyer's own logins have spent what the site allows."""
    mapped_to: str = ""
    """The log admits that this model was asked for upstream; the answer names the requested one (a vendor's patch)."""
    serves: str = ""
    """The model really asked for upstream; answers name the requested one, refusals name what was asked."""
    strikes: Strikes = "always"
    """When the model, the tokenizer and the hidden prompt are other than promised."""
    output_factor: int = 1
    """What the relay multiplies output tokens by, in the answer and in the bill."""
    stores_by: Literal["body", "prompt"] = "body"
    """What a stored answer is found by: the fields that one relay's source names, or what a model reads."""
    stores: Literal["", "free", "charged"] = ""
    """Answers of the last five minutes are given again for the same prompt, with or without a charge."""
    empty_text: bool = False
    """The model thinks and says nothing: tokens without a text, as models that reason now and then do."""
    errors_as_200: bool = False
    """Refusals and failures come with status 200, the error in the body."""
    balance: int | None = None
    """Quota left on the key; None is plenty."""
    stores_nothing: bool = False
    """`store: false` is written into every request of OpenAI's formats, as pools of accounts do."""
    foreign_rows: bool = False
    publishes_prices: bool = True
    publishes_ratios: bool = False
    """The list of ratios is exposed, beside the price list or instead of it."""
    bearer_only: bool = False
    lets_anybody_in: bool = False
    """A plain relay that looks at no key."""
    open_models: bool = False
    """The model list is shown to everybody, whatever key comes with it."""
    rewrites_errors: bool = False
    """Refusals come wrapped in a Chinese sentence with another status, as hubrelay writes them."""
    refuses_in: Literal["", "openai"] = ""
    """Refusals come in the words of another maker, whose model stands behind."""
    blanks_errors: bool = False
    """Every refusal of the vendor comes as one body that says nothing, as claude-relay-service writes it."""
    swallows: tuple[str, ...] = ()
    """Fields of a body that vanish on the way, without a word."""
    draws: bool = False
    """Sampling fields within their range vanish on the way; what is out of range goes through and is refused."""
    undecided: Undecided = "seldom"
    """On which questions the vendor's model wavers between two words, at any temperature."""
    limit_to: int = 0
    """What `max_tokens` is set to, whatever was asked for; 0 leaves it alone."""
    reroutes: bool = False
    """What the vendor refuses with 400 is asked again of another model on another channel."""
    flaky_every: int = 0
    """One request in so many is answered 503 or 529 without charge; which one, the seed says."""
    slow: bool = False
    litellm_model: str = ""
    """What LiteLLM's `x-litellm-model-name` says; empty means the requested model."""
    echoes_key: Literal["", "answers", "errors"] = ""
    official: Literal["up", "incident", "down", "lacks_model"] = "up"
    """`incident`: counts differ by 7 in the middle of the run. `down`: 529 to everything. `lacks_model`:
    404 to the model, whoever asks for it there."""
    hostile: Hostile = ""
