"""The graphs of the dashboards: every axis begins at zero."""

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch

#: A vertical axis that begins at zero.
FROM_ZERO = cloudwatch.YAxisProps(min=0, show_units=False)
_HEIGHT = 6


def graph(
    title: str,
    *left: cloudwatch.IMetric,
    right: Sequence[cloudwatch.IMetric] = (),
    limit: tuple[float, str] | None = None,
    width: int = 8,
) -> cloudwatch.GraphWidget:
    """Return a graph with an axis on each side, a third of a row wide by default.

    Args:
        title: The title.
        left: The metrics on the left axis.
        right: The metrics on the right axis.
        limit: A horizontal line on the left axis: its value and its label.
        width: The width, of 24 a row.
    """
    lines = [cloudwatch.HorizontalAnnotation(value=limit[0], label=limit[1])] if limit else []
    return cloudwatch.GraphWidget(
        title=title,
        left=list(left),
        right=list(right),
        left_annotations=lines,
        left_y_axis=FROM_ZERO,
        right_y_axis=FROM_ZERO,
        width=width,
        height=_HEIGHT,
    )
