"""Forebay: takes data from many senders over Ethernet and says where every byte went.

`forebay.net` moves messages between processes and hosts. `MuxClient` shares a network card with others through the multiplexer.
"""

from forebay._native import MuxClient, __version__

__all__ = ["MuxClient", "__version__", "net"]

from forebay import net
