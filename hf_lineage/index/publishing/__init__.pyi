from . import publishing as publishing
