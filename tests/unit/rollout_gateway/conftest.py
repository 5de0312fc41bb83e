import pytest

from rollout_gateway.chat.vocabulary import Vocabulary
from tests.support.tiny_tokenizer import write_tokenizer


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    return Vocabulary(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))
