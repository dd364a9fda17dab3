from forebay import net as net

__version__: str
