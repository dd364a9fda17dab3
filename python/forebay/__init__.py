"""Forebay: takes data from many senders over Ethernet and says where every byte went.

`forebay.net` moves messages between processes and hosts.
"""

from forebay._native import __version__

__all__ = ["__version__", "net"]

from forebay import net
