"""Pictures of what the library found. matplotlib is loaded when one is drawn, not before."""

from hardmax.plots._attention import attention_picture as attention_picture
from hardmax.plots._diagrams import diagram_picture as diagram_picture
from hardmax.plots._error import check_error_picture as check_error_picture
from hardmax.plots._error import error_picture as error_picture
from hardmax.plots._growth import growth_picture as growth_picture
from hardmax.plots._picture import check_picture as check_picture
from hardmax.plots._polytopes import polytope_picture as polytope_picture
from hardmax.plots._regions import regions_picture as regions_picture
from hardmax.plots._sizing import draw_sizing as draw_sizing
from hardmax.plots._stability import stability_picture as stability_picture
