"""Forebay: takes data from many senders over Ethernet and says where every byte went.

`forebay.net` moves messages between processes and hosts. `MuxClient` shares a network card with others through the multiplexer, and
`UdpSocket`, `TcpSocket` and `TcpListener` are sockets over it.
"""

from forebay._native import MuxClient, TcpListener, TcpSocket, UdpSocket, __version__

__all__ = ["MuxClient", "TcpListener", "TcpSocket", "UdpSocket", "__version__", "net"]

from forebay import net
