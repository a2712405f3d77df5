from .fitting import fitting_class as fitting_class
from .likes import Like as Like
from .likes import find_likes as find_likes
