"""What an install downloads is summed by what it is."""

from tools.download_sizes import row


def test_the_parts_of_a_download_are_pytorch_and_cuda():
    wheels = {"torch": 500_000_000, "nvidia-cublas": 1_400_000_000, "triton": 100_000_000, "click": 1_000_000}
    assert row("Linux", wheels) == ("Linux", "4", "2,001 MB", "500 MB", "1,500 MB")
