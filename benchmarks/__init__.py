"""What hf-lineage costs, measured beside the limits of the hardware and beside what others need for the same."""
