"""What an install downloads is summed by what it is."""

from tools.download_sizes import COLUMNS, row


def test_the_parts_of_a_download_with_the_extra_are_pytorch_and_cuda():
    plain = {"click": 1_000_000, "numpy": 20_000_000}
    gpu = {"torch": 500_000_000, "nvidia-cublas": 1_400_000_000, "triton": 100_000_000}
    cells = row("Linux", plain, plain | gpu)
    assert cells == ("Linux", "2", "21 MB", "2,021 MB", "500 MB", "1,500 MB")
    assert len(cells) == len(COLUMNS)
